/** `12 bytes`, `64 KiB`, `1.5 MiB`. */
export function sizeWords(bytes: number): string {
  if (bytes >= 1024 ** 2) return `${Number((bytes / 1024 ** 2).toFixed(1))} MiB`;
  return bytes >= 1024 ? `${Math.ceil(bytes / 1024)} KiB` : `${bytes} bytes`;
}
