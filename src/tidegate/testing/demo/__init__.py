"""The demo: a word count that is killed again and again while its input arrives, and whose every record is compared."""
