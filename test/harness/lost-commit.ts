/** A store whose commits are not confirmed: each unit is written, and its caller told that nobody knows. */
import { UnknownOutcomeError, type Store } from '../../src/store/store.ts';

export function loseConfirmations(store: Store): void {
  const { write } = store;
  Object.assign(store, {
    async write(unit: Parameters<Store['write']>[0]) {
      await write(unit);
      throw new UnknownOutcomeError('the connection was cut');
    },
  });
}
