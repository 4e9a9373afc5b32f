# Postern in a container: the files of a release (scripts/package.ts) on Debian. docs/install.md shows how to run it. Only
# /var/lib/postern has to persist. The root file system may be read-only.

FROM node:24.21.0-bookworm-slim AS build
WORKDIR /build
COPY .npmrc CHANGELOG.md LICENSE README.md SECURITY.md package.json package-lock.json ./
COPY bin bin
COPY config config
COPY docs docs
COPY man man
COPY monitoring monitoring
COPY scripts scripts
COPY src src
COPY systemd systemd
# The time of every file, in seconds; docker build sets it to that of the commit if it is told to.
ARG SOURCE_DATE_EPOCH=0
RUN node --disable-warning=ExperimentalWarning scripts/package.ts --tree /opt/postern

FROM debian:bookworm-slim
RUN groupadd --gid 10001 postern \
 && useradd --uid 10001 --gid postern --home-dir /var/lib/postern --no-create-home --shell /usr/sbin/nologin postern \
 && install -d -o postern -g postern -m 0700 /var/lib/postern /var/cache/postern \
 && install -d -o postern -g postern -m 0750 /run/postern \
 && ln -s /opt/postern/bin/postern /usr/local/bin/postern
COPY --from=build /opt/postern /opt/postern

ENV NODE_ENV=production CACHE_DIRECTORY=/var/cache/postern
USER 10001:10001
VOLUME /var/lib/postern
EXPOSE 25 80 443 587
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=2m \
  CMD ["/opt/postern/bin/node", "-e", "require('node:http').get({ socketPath: '/run/postern/admin.sock', path: '/healthz' }, ({ statusCode }) => process.exit(statusCode === 200 ? 0 : 1)).on('error', () => process.exit(1))"]
ENTRYPOINT ["/opt/postern/bin/postern"]
CMD ["serve", "--config", "/etc/postern/server.yml"]
