_base_ = ["./ccc_vit_roid.py", "../../_base_/cls/reservoir.py"]
