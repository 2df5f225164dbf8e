"""Closest points of two convex bodies as equations, and facts about shapes that scale and start a
search for them."""
