"""The step of Chakraborty et al. (2007) for many bodies: pairs are found, the linear system is
sparse."""
