"""Blender: from latents to teapot scenes to shards."""
