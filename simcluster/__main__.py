"""`python -m simcluster` is the command line."""

from simcluster.cli import main

main()
