/** Mail that no person wrote: nothing answers it by itself, or two machines would talk for ever (RFC 3834 §2). */
import { valueOf, type Field } from './header-block.ts';

/** Whether the header says that it is an answer, a report, or of a list. */
export function isAutomatic(fields: readonly Field[]): boolean {
  return fields.some((field) => {
    const { name } = field;
    switch (name) {
      case 'auto-submitted':
        return firstWord(field) !== 'no';
      case 'precedence':
        return ['bulk', 'list', 'junk'].includes(firstWord(field));
      case 'content-type':
        return firstWord(field) === 'multipart/report';
      default:
        return name.startsWith('list-');
    }
  });
}

/** In lower case, without comments and parameters. */
function firstWord(field: Field): string {
  const [, word = ''] = /^(?:\s|\([^()]*\))*([^\s;()]*)/.exec(valueOf(field)) ?? [];
  return word.toLowerCase();
}
