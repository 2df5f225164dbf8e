"""Volume, moments and meshes of convex bodies."""
