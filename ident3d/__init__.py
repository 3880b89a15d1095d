"""Ground-truth images and honest measurement for identifiable representation learning."""
