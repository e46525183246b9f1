"""NVlabs' SegFormer, the source model of all published results on ACDC."""
