"""The pages, one file each; a page that does not exist yet has no tab."""
