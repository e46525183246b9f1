_base_ = ["./ccc_vit_sar.py", "../../_base_/cls/reservoir.py"]
