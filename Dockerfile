# The production binary: no embedded engine, nothing but pgveil and the C library.
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update \
  && apt-get install -y --no-install-recommends gcc libc6-dev \
  && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY Cargo.toml Cargo.lock ./
COPY src src
# The demo is built in.
COPY policies policies
COPY data data
# Named in Cargo.toml, so it must be there; it is not built.
COPY benches benches
RUN cargo build --release --locked --bin pgveil

FROM debian:bookworm-slim
LABEL org.opencontainers.image.title="pgveil" \
      org.opencontainers.image.description="A PostgreSQL proxy that adds differential privacy" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0" \
      org.opencontainers.image.base.name="debian:bookworm-slim"
# The ledger is the only thing that pgveil writes: with a volume there, the root may be read-only.
RUN groupadd --system --gid 10001 pgveil \
 && useradd --system --uid 10001 --gid pgveil --home-dir /nonexistent \
    --shell /usr/sbin/nologin pgveil \
 && install -d -o pgveil -g pgveil -m 0700 /var/lib/pgveil
COPY --from=build /build/target/release/pgveil /usr/local/bin/pgveil
COPY policies /policies
USER 10001:10001
VOLUME /var/lib/pgveil
EXPOSE 6432
STOPSIGNAL SIGTERM
# Of the address that the command below serves the operator at, inside the container alone.
HEALTHCHECK --interval=10s --timeout=12s --start-period=60s \
  CMD ["/usr/local/bin/pgveil", "health", "127.0.0.1:6433"]
ENTRYPOINT ["/usr/local/bin/pgveil"]
CMD ["serve", "--policy", "/policies/compose.yaml", \
  "--listen", "0.0.0.0:6432", "--admin", "127.0.0.1:6433"]
