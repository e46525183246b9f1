_base_ = ["./digits_vit_vpt.py", "../../_base_/cls/digits_reservoir.py"]
