/** What the YAML parser complains about, in words that say what to do. */
import { isAlias, isMap } from 'yaml';
import type { ErrorCode, ParsedNode, YAMLParseError, YAMLWarning } from 'yaml';

const HINTS: Partial<Record<ErrorCode, string>> = {
  TAB_AS_INDENT: 'tabs cannot indent YAML; use spaces',
  MULTIPLE_DOCS: 'a second document begins here; one file holds one, remove the line ---',
  TAG_RESOLVE_FAILED: 'tags (words that begin with !) have no meaning here; quote the value if it is text',
  BLOCK_AS_IMPLICIT_KEY: 'a second "key:" stands on this line; begin a new line, or quote text that holds ": "',
  MULTILINE_IMPLICIT_KEY: 'a key without a colon, or a value that goes on at the wrong indentation',
  BAD_INDENT: 'the indentation does not fit what stands above',
};

/** A syntax error or warning as a sentence, and where in the text it belongs. */
export function explainSyntax(error: YAMLParseError | YAMLWarning, text: string): { offset: number; message: string } {
  const [offset] = error.pos;
  const start = text.lastIndexOf('\n', offset - 1) + 1;
  const line = /^[^\n]*/.exec(text.slice(start))?.[0] ?? '';
  const starred = /^\s*\*\S*@\S+:/.exec(line);
  if (starred !== null) {
    const key = starred[0].trim().slice(0, -1);
    return { offset: start + line.indexOf('*'), message: `a key that begins with * must be quoted: "${key}":` };
  }
  if (/\[[0-9a-fA-F:.]*:[0-9a-fA-F:.]*\]:\d/.test(line)) {
    return { offset, message: 'an address that begins with [ must be quoted: "[::]:80"' };
  }
  if (error.code === 'BAD_SCALAR_START') {
    return { offset, message: `a value that begins with ${text.charAt(offset)} must be quoted` };
  }
  const [, close] = error.code === 'BAD_INDENT' ? (/ end with a ([\]}])/.exec(error.message) ?? []) : [];
  if (close !== undefined)
    return {
      offset,
      message: `the ${close === '}' ? '{' : '['} above is not closed: a ${close} is missing, or this line must be indented`,
    };
  const message = HINTS[error.code] ?? error.message.charAt(0).toLowerCase() + error.message.slice(1);
  return { offset, message };
}

/** Why a node cannot be a key. */
export function keyHint(key: ParsedNode): string {
  if (isMap(key)) return 'a value that holds {{ … }} must be quoted';
  if (isAlias(key)) return `a key that begins with * must be quoted: "*${key.source}":`;
  return 'a key must be text; quote it if it is, and quote values that begin with [';
}
