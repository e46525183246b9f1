# What perfect routing would give: for analysis only.
_base_ = ["./segformer-tiny_cotta.py", "../_base_/reservoir/oracle.py"]
