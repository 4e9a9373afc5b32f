import fc from 'fast-check';
import { expect, test } from 'vitest';
import { packAnswer, packCall, unpackAnswers, unpackUnit, type Answer } from '../../src/store/sqlite-protocol.ts';
import type { CompiledStatement } from '../../src/store/statement.ts';

const value = fc.oneof(fc.string(), fc.integer(), fc.constant(null), fc.uint8Array());
const call = fc.record({
  statement: fc.nat(),
  expect: fc.option(fc.nat(), { nil: undefined }),
  parameters: fc.array(value),
});
const outcome = fc.oneof(fc.nat(), fc.array(fc.dictionary(fc.string(), fc.string())));
const answer = fc.oneof(
  fc.record({ id: fc.nat(), outcomes: fc.array(outcome) }),
  fc.record({ id: fc.nat(), failure: fc.record({ message: fc.string(), code: fc.string() }) }),
);

test('units cross as they are, whatever their parameters', () => {
  fc.assert(
    fc.property(fc.nat(), fc.array(call), (id, calls) => {
      const packed: Parameters<typeof packCall>[1] = [id];
      for (const { statement, expect, parameters } of calls) {
        const compiled: CompiledStatement = {
          sql: '',
          count: parameters.length,
          bind(_, into = []) {
            into.push(...parameters);
            return into;
          },
        };
        packCall({ statement, compiled, values: {}, expect }, packed);
      }
      expect(unpackUnit(packed)).toEqual({ id, calls });
    }),
  );
});

test('answers cross as they are, failures among them', () => {
  fc.assert(
    fc.property(fc.array<Answer>(answer), (answers) => {
      const packed: Parameters<typeof packAnswer>[1] = [];
      for (const one of answers) packAnswer(one, packed);
      expect(unpackAnswers(packed)).toEqual(answers);
    }),
  );
});
