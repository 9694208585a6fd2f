"""What `import factmill` offers beyond reading and scoring; imported when one of its functions is called."""
