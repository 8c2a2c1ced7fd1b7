"""The demo: a word count that is killed again and again while its input arrives. Every record is compared at the
end."""
