"""NVlabs' SegFormer, from which every published number on ACDC comes."""
