_base_ = ["./ccc_vit_vpt.py", "../../_base_/cls/reservoir.py"]
