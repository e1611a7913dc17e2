# Thin names for the scripts; each sets up .venv by itself.
.PHONY: demo test check slow docs schemas notebooks bench build

demo:
	@python3 scripts/demo.py

test:
	@python3 scripts/test.py

check:
	@python3 scripts/check.py

slow:
	@python3 scripts/test.py -m slow

docs:
	@python3 scripts/environment.py dev
	@.venv/bin/python scripts/docs.py

schemas:
	@python3 scripts/environment.py dev
	@.venv/bin/python scripts/schemas.py

notebooks:
	@python3 scripts/notebooks.py

bench:
	@python3 scripts/environment.py dev
	@.venv/bin/python benchmarks/run.py

build:
	@python3 scripts/environment.py dev
	@.venv/bin/python -m pip wheel --quiet --no-deps --wheel-dir dist .
