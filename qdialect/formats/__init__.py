"""The file formats: each has a reader and a writer."""
