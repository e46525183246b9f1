_base_ = ["./digits_vit_tent.py", "../../_base_/cls/digits_reservoir.py"]
