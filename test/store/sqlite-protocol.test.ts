import fc from 'fast-check';
import { expect, test } from 'vitest';
import { packAnswer, packUnit, unpackAnswers, unpackUnits, type Answer } from '../../src/store/sqlite-protocol.ts';

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
    fc.property(fc.array(fc.record({ id: fc.nat(), calls: fc.array(call) })), (units) => {
      const packed: Parameters<typeof packUnit>[1] = [];
      for (const unit of units) packUnit(unit, packed);
      expect(unpackUnits(packed)).toEqual(units);
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
