import sys, time, os
os.environ.setdefault("OPENBLAS_NUM_THREADS","1")
sys.path.insert(0,"/work/main/benchmarks")
import numpy as np, statistics
import implicit_stepper as ist
import mechanisms as m
names = sys.argv[1].split(",") if len(sys.argv)>1 else list(m.ROWS)
for name in names:
    how = m.ROWS[name]
    scenes, spent, runs = [m.boxes(hinged,*how) for hinged in (False,True)], ([],[]), [None,None]
    for number in range(10):
        for i,s in enumerate(scenes):
            b=time.process_time(); runs[i]=ist.simulate(s, ist.GeometricallyImplicit(), h=.01, duration=2., progress=False)
            spent[i].extend([time.process_time()-b] if number else [])
    print(name, [f"{1e3*statistics.median(x):.1f}" for x in spent], f"{statistics.median([b/a for a,b in zip(*spent)]):.2f}", [int(np.sum(r.stats.iterations)) for r in runs], flush=True)
