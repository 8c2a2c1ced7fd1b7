"""The source of files in a folder: chooses the files of each epoch, and records which files were read."""
