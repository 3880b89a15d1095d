"""What comes from outside is hostile until read here: plain files, strict JSON, numbers in .npy."""

from ..files import open_plain as open_plain
from ..files import read_plain as read_plain
from .array_pickle import parse_pickle as parse_pickle
from .npy import parse_npy as parse_npy
from .npy import read_npy as read_npy
from .npy import write_npy as write_npy
from .reals import as_reals as as_reals
from .sealed import is_version_1 as is_version_1
from .sealed import read_sealed as read_sealed
from .sealed import write_sealed as write_sealed
from .strict_json import parse_json as parse_json
from .strict_json import read_json as read_json
