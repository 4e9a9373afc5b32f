import { describe, expect, test } from 'vitest';
import { parsePostgresUrl, postgresUrlProblem, sslModeOf, withoutPassword } from '../../src/lib/postgres-url.ts';

describe('an address of PostgreSQL', () => {
  test.for([
    ['postgres://db/mail', [{ host: 'db', port: undefined }]],
    ['postgresql://postern:pw@db:5433/mail', [{ host: 'db', port: 5433 }]],
    [
      'postgres://postern@db1,db2:5433,[2001:db8::1]:5434/mail',
      [
        { host: 'db1', port: undefined },
        { host: 'db2', port: 5433 },
        { host: '2001:db8::1', port: 5434 },
      ],
    ],
    ['postgres:///mail', [{ host: undefined, port: undefined }]],
    ['postgres://%2Frun%2Fpostgresql/mail', [{ host: '/run/postgresql', port: undefined }]],
    ['postgres:///mail?host=/run/postgresql&port=5433', [{ host: '/run/postgresql', port: 5433 }]],
    [
      'postgres:///mail?host=db1,db2&port=5433',
      [
        { host: 'db1', port: 5433 },
        { host: 'db2', port: 5433 },
      ],
    ],
  ] as const)('%s', ([url, hosts]) => {
    expect(postgresUrlProblem(url)).toBe(undefined);
    expect(parsePostgresUrl(url).hosts).toEqual(hosts);
  });

  test.for([
    ['postgres://user:pa/ss@db/mail', /percent-encoded|postgres:/],
    ['postgres://user:pa?ss@db/mail', /percent-encoded/],
    ['postgres://user:pa#ss@db/mail', /postgres:/],
    ['postgres://db:five/mail', /host:port/],
    ['postgres:///mail?host=a,b,c&port=1,2', /as many ports as hosts/],
    ['postgres://db/mail?sslmode=on', /sslmode to be disable, allow/],
    ['postgres://db/mail?sslmode=verify-ca', /sslrootcert with sslmode=verify-ca/],
    ['postgres://db/mail?sslmode=require&sslrootcert=system', /sslmode=verify-full with sslrootcert=system/],
    ['postgres://db/mail?sslcert=/a', /sslcert and sslkey together/],
    ['postgres://db/mail?target_session_attrs=standby', /any, primary or read-write, because Postern writes/],
    ['postgres://db/mail?connect_timeout=soon', /connect_timeout in seconds/],
    ['postgres://db/mail?sslnegotiation=direct', /sslmode=require or stronger/],
    ['postgres://db/mail?ssl=true', /the parameters .*sslmode.*, found ssl$/],
  ] as const)('%s is refused with words', ([url, words]) => {
    expect(postgresUrlProblem(url)).toMatch(words);
  });

  test('is shown without its password', () => {
    expect(withoutPassword('postgres://postern:s3cr:et@db1,db2:5433/mail?password=s3cret&sslmode=require')).toBe(
      'postgres://postern@db1,db2:5433/mail',
    );
    expect(withoutPassword('postgres://a:b/c@d')).toBe('at database.url');
  });
});

test.for([
  ['', {}, 'prefer'],
  ['', { PGSSLMODE: 'require' }, 'require'],
  ['sslmode=disable', { PGSSLMODE: 'require' }, 'disable'],
  ['sslrootcert=system', {}, 'verify-full'],
] as const)('sslmode of "%s" with %o is %s', ([parameters, env, mode]) => {
  expect(sslModeOf(new URLSearchParams(parameters), env)).toBe(mode);
});
