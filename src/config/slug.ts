/** The name of a project in addresses and commands. */

export const SLUG = /^[a-z0-9][a-z0-9-]{0,62}$/;

const LONGEST = 40;

/** A slug for a name that people gave: `Müller & Söhne` is `muller-sohne`; `project` where nothing of it can stay. */
export function slugOf(name: string): string {
  const plain = name
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, LONGEST);
  return plain.replaceAll(/^-|-$/g, '') || 'project';
}
