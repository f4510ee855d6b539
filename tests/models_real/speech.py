"""A spoken sentence at 16,000 samples a second, between two silences."""

import os
import shutil
import subprocess
import tempfile
import wave

import numpy as np

RATE = 16000


def spoken(sentence):
    """By espeak-ng, which is the same for the same version of it."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "spoken.wav")
        # It looks for a sound server, and makes a folder in the home folder for it.
        subprocess.run(["espeak-ng", "-v", "en", "-w", file, sentence], check=True, capture_output=True,
                       env={**os.environ, "HOME": folder, "XDG_CONFIG_HOME": folder})
        with wave.open(file) as sound:
            samples = np.frombuffer(sound.readframes(sound.getnframes()), "<i2").astype(np.float64) / 32768
            rate = sound.getframerate()
    at = np.arange(int(len(samples) * RATE / rate)) * rate / RATE
    return np.interp(at, np.arange(len(samples)), samples)


def resonance(samples, frequency, width):
    radius = np.exp(-np.pi * width / RATE)
    back = 2 * radius * np.cos(2 * np.pi * frequency / RATE)
    out = np.zeros(len(samples) + 2)
    for i, sample in enumerate(samples):
        out[i + 2] = sample + back * out[i + 1] - radius * radius * out[i]
    return out[2:]


def vowels():
    """Where nothing can speak: pulses of a voice that falls from 150 Hz, through the resonances of a, i and u in turn."""
    parts = []
    for first, second, pitch in [(730, 1090, 150), (270, 2290, 135), (300, 870, 120)] * 2:
        pulses = np.zeros(RATE // 6)
        pulses[::RATE // pitch] = 1
        parts.append(resonance(resonance(pulses, first, 80), second, 100) * np.hanning(len(pulses)))
    joined = np.concatenate(parts)
    return joined / np.abs(joined).max() * 0.5


def make(rate=RATE):
    """The samples as float32, and how many of them are silent at the start."""
    sound = spoken("The model runs on the device.") if shutil.which("espeak-ng") else vowels()
    silence = np.zeros(RATE // 5)
    samples = np.concatenate([silence, sound, silence])[::RATE // rate]
    return samples.astype(np.float32), len(silence) * rate // RATE
