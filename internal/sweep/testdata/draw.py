# mulberry32 after the published JavaScript, with Python's own integers.
M=0xffffffff
def imul(a,b): return (a*b)&M
def mulberry32(a):
    a&=M
    while True:
        a=(a+0x6D2B79F5)&M
        t=imul(a^(a>>15),1|a)
        t=((t+imul(t^(t>>7),61|t))&M)^t
        yield t^(t>>14)
def shuffle(seed,n,total):
    g=mulberry32(seed); cells=list(range(total)); out=[]
    for k in range(n):
        rem=total-k; i=next(g)%rem
        out.append(cells[i]); cells[i]=cells[rem-1]; cells.pop()
    return out
for s in (0,1,42,4294967295):
    g=mulberry32(s); print(s,[next(g) for _ in range(5)])
for a in ((0,4,9),(1,9,9),(42,5,1048576),(7,32,33),(4294967295,3,3)):
    print(a,shuffle(*a))
