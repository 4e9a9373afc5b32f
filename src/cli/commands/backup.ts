/** `backup`: a copy of the database while the daemon runs. */
import type { BackupFlags } from '../backup.ts';
import type { CliCommand } from '../command.ts';
import { operating, operatingOptions, type AskingFlags, type Cli } from './asking.ts';

/** Adds `backup`. */
export function addBackupCommand(program: CliCommand, cli: Cli): void {
  operating(program.command('backup'))
    .argument('<file>', 'where the copy goes; readable for its owner alone')
    .description("copy the daemon's SQLite database while it runs, verified (PostgreSQL: use pg_dump)")
    .option('--force', 'replace the file if it is there', false)
    .example('backup /var/backups/postern.db --force', 'what a timer does every night')
    .action(async (file: string, { url, config, json, ...flags }: BackupFlags & AskingFlags) => {
      const { backup } = await import('../backup.ts');
      cli.exit(await backup(await operatingOptions(cli, { url, config, json }), file, flags));
    });
}
