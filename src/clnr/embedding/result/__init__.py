"""What an embedding leaves: its folder, who its nodes are, which are near and which alike, and its report."""
