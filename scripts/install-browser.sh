#!/bin/sh
# Finds a Chromium for the web journey, or installs the distribution's. Says so when it can do neither; the web
# journey then fails with the same advice.
set -eu

for name in chromium chromium-browser google-chrome; do
  if command -v "$name" >/dev/null 2>&1; then
    exit 0
  fi
done

if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
  echo "headrace: installing chromium with apt-get"
  if apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; then
    exit 0
  fi
fi

cat >&2 <<'END'
headrace: no Chromium on PATH, and none could be installed. The test of the web page will fail; every other test runs.
          Install chromium, chromium-browser or google-chrome, and run make test again.
END
