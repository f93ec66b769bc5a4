"""Models with parameters that have limits and expressions, as lmfit has them: fits of functions, built-in models, several data sets.

    from gradus.models import GaussianModel, LinearModel

    model = GaussianModel() + LinearModel()
    result = model.fit(y, model.make_params(amplitude=5, center=1, sigma=1, slope=0, intercept=0), x=x)
    print(result.report())
"""
from . import lineshapes as lineshapes
from ._built_in import (BoseModel as BoseModel, BreitWignerModel as BreitWignerModel, ConstantModel as ConstantModel,
                        DampedHarmonicOscillatorModel as DampedHarmonicOscillatorModel, DampedOscillatorModel as DampedOscillatorModel,
                        DoniachModel as DoniachModel, ExponentialGaussianModel as ExponentialGaussianModel, ExponentialModel as ExponentialModel,
                        ExpressionModel as ExpressionModel, FermiModel as FermiModel, Gaussian2dModel as Gaussian2dModel, GaussianModel as GaussianModel,
                        LinearModel as LinearModel, LognormalModel as LognormalModel, LorentzianModel as LorentzianModel, MoffatModel as MoffatModel,
                        Pearson4Model as Pearson4Model, Pearson7Model as Pearson7Model, PolynomialModel as PolynomialModel,
                        PowerLawModel as PowerLawModel, PseudoVoigtModel as PseudoVoigtModel, QuadraticModel as QuadraticModel,
                        RectangleModel as RectangleModel, SineModel as SineModel, SkewedGaussianModel as SkewedGaussianModel,
                        SkewedVoigtModel as SkewedVoigtModel, SplineModel as SplineModel, SplitLorentzianModel as SplitLorentzianModel,
                        StepModel as StepModel, StudentsTModel as StudentsTModel, ThermalDistributionModel as ThermalDistributionModel,
                        VoigtModel as VoigtModel)
from ._minimizer import Minimizer as Minimizer, MinimizerResult as MinimizerResult, ci_report as ci_report, conf_interval as conf_interval
from ._minimizer import f_compare as f_compare, fit_report as fit_report, minimize as minimize, report_ci as report_ci, report_fit as report_fit
from ._model import CompositeModel as CompositeModel, Model as Model, ModelResult as ModelResult
from ._parameters import Parameter as Parameter, Parameters as Parameters, create_params as create_params
from ._sets import SetsResult as SetsResult
