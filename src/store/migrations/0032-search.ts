/** The words of submissions, to search by: FTS5 on SQLite, tsvector on PostgreSQL; and which submissions are yet to be indexed. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';

/** Creates the tables. What is there already is indexed by the job that indexes what comes. */
export function search(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      const statements =
        dialect === 'sqlite'
          ? [
              // Numbered by time, so that the newest are found first.
              sql`create table submission_documents (doc integer primary key, submission text not null unique
                references submissions (id) on delete cascade) strict`,
              sql`create virtual table submission_index using fts5(words, content='', contentless_delete=1, detail=none,
                tokenize='unicode61 remove_diacritics 0')`,
              sql`create trigger submission_documents_deleted after delete on submission_documents begin
                delete from submission_index where rowid = old.doc; end`,
              sql`create table submissions_to_index (submission text primary key not null) strict, without rowid`,
            ]
          : [
              sql`create table submission_documents (submission text primary key
                references submissions (id) on delete cascade, words tsvector not null)`,
              sql`create index submission_documents_by_words on submission_documents using gin (words)`,
              sql`create table submissions_to_index (submission text primary key)`,
            ];
      statements.push(sql`insert into submissions_to_index select id from submissions`);
      for (const statement of statements) await statement.execute(db);
    },
  };
}
