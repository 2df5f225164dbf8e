"""The shapes that come with the package, and new ones from others."""
