"""Questions about kernels: occupancy, memory access, fusion, and the roofline over them."""
