"""Two million bytes on stdout, then exit 2."""
import sys

sys.stdin.read()
for number in range(20000):
    sys.stdout.write("checked " + str(number).zfill(6) + " " + "." * 84 + "\n")
sys.stdout.flush()
sys.stderr.write("refused after a long list\n")
sys.exit(2)
