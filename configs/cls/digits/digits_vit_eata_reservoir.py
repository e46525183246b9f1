_base_ = ["./digits_vit_eata.py", "../../_base_/cls/digits_reservoir.py"]
