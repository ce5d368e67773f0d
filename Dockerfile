# On x86-64 and on arm64; see the table of platforms in docs/install.md. docs/container.md tells how to run it.
ARG BASE=python:3.12-slim
FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE hatch_build.py honed.py ./
COPY docs/honed.1 docs/honed.1
COPY api api
COPY cli cli
COPY examples examples
COPY service service
COPY storage storage
COPY systemd systemd
RUN python3 -m venv /opt/honed && /opt/honed/bin/pip install --no-cache-dir .

FROM ${BASE}
RUN useradd --system --create-home --home-dir /var/lib/honed honed
COPY --from=build /opt/honed /opt/honed
USER honed
# A port is published from all addresses of the container, which has a network of its own: that is why
# the daemon may listen there without TLS. Publish it to the host alone (-p 127.0.0.1:8471:8471), or
# give a certificate (docs/security.md); tokens would cross any other network in the clear.
ENV PATH=/opt/honed/bin:$PATH \
    STATE_DIRECTORY=/var/lib/honed \
    HONED_HOST=0.0.0.0 \
    HONED_INSECURE_BIND=true \
    HONED_LOG_FORMAT=json
VOLUME /var/lib/honed
EXPOSE 8471
STOPSIGNAL SIGTERM
# It asks the socket in the data folder, whatever port or certificate TCP has.
HEALTHCHECK --interval=30s --timeout=10s --start-period=15m CMD ["honed", "status"]
CMD ["honed", "serve"]
