/** Reads the Dockerfile, as far as ours goes: for its test, and to run its steps where no engine is at hand. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');

export interface Instruction {
  /** `RUN`, `COPY`, … */
  readonly name: string;
  /** What follows it, on one line. */
  readonly words: string;
}

export interface Stage {
  readonly image: string;
  /** What later stages call it; empty for the last. */
  readonly name: string;
  readonly instructions: readonly Instruction[];
}

/** Its stages in order. */
export function readDockerfile(): Stage[] {
  const text = readFileSync(join(ROOT, 'Dockerfile'), 'utf8')
    .replaceAll(/^#.*\n/gm, '')
    .replaceAll(/\\\n\s*/g, '');
  const stages: { image: string; name: string; instructions: Instruction[] }[] = [];
  for (const line of text.split('\n').filter((line) => line.trim() !== '')) {
    const [, name = '', words = ''] = /^([A-Z]+) +(.*)$/.exec(line) ?? [];
    if (name !== 'FROM') stages.at(-1)?.instructions.push({ name, words });
    else {
      const [, image = '', stage = ''] = /^(\S+)(?: AS (\S+))?$/.exec(words) ?? [];
      stages.push({ image, name: stage, instructions: [] });
    }
  }
  return stages;
}

export interface Copy {
  /** The stage that it copies from; undefined for the checkout. */
  readonly from: string | undefined;
  readonly sources: readonly string[];
  readonly target: string;
}

/** The words of a COPY. */
export function parseCopy(words: string): Copy {
  const [, from, rest = ''] = /^(?:--from=(\S+) +)?(.*)$/.exec(words) ?? [];
  const paths = rest.split(/ +/);
  return { from, sources: paths.slice(0, -1), target: paths.at(-1) ?? '' };
}

/** The last words of this instruction in a stage. */
export function wordsOf(stage: Stage | undefined, name: string): string {
  return stage?.instructions.findLast((instruction) => instruction.name === name)?.words ?? '';
}

/** What .dockerignore lets into an image. */
export function sentPaths(): string[] {
  const lines = readFileSync(join(ROOT, '.dockerignore'), 'utf8').split('\n');
  return lines.filter((line) => line.startsWith('!')).map((line) => line.slice(1));
}
