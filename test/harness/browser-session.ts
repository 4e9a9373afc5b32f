/** A browser that signs in to the console: it keeps cookies, and says where its requests come from. */
import type { TestAnswer, TestHttp, TestRequest } from './http.ts';

export interface TestBrowser {
  /** A request of a page of the server, by script. */
  readonly request: (path: string, request?: TestRequest) => Promise<TestAnswer>;
  readonly cookies: Map<string, string>;
}

/** What such a request says of itself. */
export function ownScript(http: Pick<TestHttp, 'port'>, method = 'GET'): Record<string, string> {
  const host = `localhost:${http.port}`;
  const isSafe = method === 'GET' || method === 'HEAD';
  return {
    Host: host,
    'Sec-Fetch-Site': 'same-origin',
    'Sec-Fetch-Mode': 'cors',
    'User-Agent': 'Browser/1',
    ...(isSafe ? {} : { Origin: `http://${host}` }),
  };
}

export function testBrowser(http: TestHttp): TestBrowser {
  const cookies = new Map<string, string>();
  return {
    cookies,
    async request(path, request = {}) {
      const method = request.method ?? (request.body === undefined ? 'GET' : 'POST');
      const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
      const answer = await http.request(path, {
        ...request,
        headers: { ...ownScript(http, method), ...(cookie === '' ? {} : { Cookie: cookie }), ...request.headers },
      });
      for (const line of answer.headers['set-cookie'] ?? []) {
        const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
        if (/Max-Age=0\b/.test(line)) cookies.delete(name);
        else cookies.set(name, value);
      }
      return answer;
    },
  };
}
