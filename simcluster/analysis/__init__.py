"""What a result means: where the time goes, how sure it is."""
