"""What the sources say, as checks that anyone can run: `attnexp claims`."""
