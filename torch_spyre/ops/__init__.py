"""Operators beyond ATen, and how ops without a kernel of their own are run."""
