"""Checks of inequalities: is the set a convex body with usable normals, and does every inequality
bound it?"""
