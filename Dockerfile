# Postern in a container; docs/install.md shows how to run it. Only /var/lib/postern has to persist. The root file system may be
# read-only.

# The production packages of package-lock.json. The image has Node.js already, so the optional package of it is left out.
FROM node:24.21.0-bookworm-slim AS packages
WORKDIR /opt/postern
COPY package.json package-lock.json .npmrc ./
# The launcher compares this copy of the lockfile and then downloads nothing.
RUN npm ci --omit=dev --omit=optional --loglevel=error \
 && cp package-lock.json node_modules/.postern-lock

FROM node:24.21.0-bookworm-slim
RUN groupadd --gid 10001 postern \
 && useradd --uid 10001 --gid postern --home-dir /var/lib/postern --no-create-home --shell /usr/sbin/nologin postern \
 && install -d -o postern -g postern -m 0700 /var/lib/postern /var/cache/postern \
 && install -d -o postern -g postern -m 0750 /run/postern \
 && ln -s /opt/postern/bin/postern /usr/local/bin/postern
WORKDIR /opt/postern
COPY --from=packages /opt/postern/node_modules node_modules
COPY LICENSE package.json package-lock.json ./
COPY bin bin
COPY config config
COPY src src

ENV NODE_ENV=production CACHE_DIRECTORY=/var/cache/postern
USER 10001:10001
VOLUME /var/lib/postern
EXPOSE 25 80 443 587
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=2m \
  CMD ["node", "-e", "require('node:http').get({ socketPath: '/run/postern/admin.sock', path: '/healthz' }, ({ statusCode }) => process.exit(statusCode === 200 ? 0 : 1)).on('error', () => process.exit(1))"]
ENTRYPOINT ["/opt/postern/bin/postern"]
CMD ["serve", "--config", "/etc/postern/server.yml"]
